"""The jobs of `holdfast spark` for spark-submit: the same arguments, under the submitter's settings.

    spark-submit --master yarn "$(holdfast spark program)" archive orders --to hdfs:///lake

A file of its own, in this folder, because Python puts the folder of the program it runs first on its
path: from Holdfast's own, modules such as `inspect` and `token` would take the place of Python's.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from holdfast.cli.main import run

    sys.argv[1:1] = ["spark"]
    run()
