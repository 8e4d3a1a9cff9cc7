"""python -m holdfast.cli"""

from holdfast.cli.main import run

if __name__ == "__main__":
    run()
