"""The proof: real servers are tortured while everybody sends and takes, and the histories are checked.

    scenarios   which fault, on which servers, held to which promises; and the controls
    run         one scenario with one seed: load, fault, healing, draining, verdict
    nemesis     the faults
    servers     one node, Sentinel, a 3+3 cluster; node: one process; network: cuts; shims: disk and clock
    workload    who sends and who takes at which place; producers, takers, fleet (asyncio), front (doors
                and worker), consumer (a process to be killed), app (tasks)
    crew        threads that write down all they do; hands: what a taker writes; history: all of it
    probe       the servers' own gap
    checker     one checker for all histories
    command     progress, table, JSON; runner: a process for each run; proof: docs/proof.md

`python -m tools.torture --help` tells how to use it.
"""
