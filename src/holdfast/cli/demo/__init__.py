"""holdfast demo: orders through workers that fail and die, and not one of them lost.

orders.py   what an order is, and which ones will make trouble
worker.py   one worker process: an ordinary consume loop, plus the trouble
crew.py     starts worker processes and replaces the dead
account.py  what the workers wrote down, held against what the queue counted
view.py     what one sees meanwhile and at the end
story.py    the order of events
pipeline.py what the workers shipped, through Spark into the lake, and the report
command.py  the command
"""
