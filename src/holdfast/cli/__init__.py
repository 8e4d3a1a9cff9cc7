"""The command line: `holdfast send | receive | …`. One file per command or small family.

`main.py` holds the app and the one place where errors become text and exit statuses; `options.py`
what the commands share; `output.py` how things look. No command keeps a rule of its own: each
translates words into one call of the client.
"""
