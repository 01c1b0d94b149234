"""Files that appear in plain directories by intents: each unit's log of intents is its position.

Contents: the values of a log and the machine of one unit (pure), the stores that hold logs and make files
appear, the units of an attempt, the Spark jobs that stage files, and the rotation of files.
"""
