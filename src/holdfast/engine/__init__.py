"""The engine: what happens inside the server, and how Python asks for it.

`lua/` holds the transitions, `library.py` assembles and versions them, `keys.py` spells the keys,
`calls.py` builds one `Call` per transition, `replies.py` reads the answers. Nothing here does I/O.
"""
