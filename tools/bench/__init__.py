"""The benchmark: the same rows on a mount and on a plain directory of the same disk, in one run, in interleaved rounds.

`rows` holds the registry, `work` what a row works with, `sides` where it runs, `measure` the rounds, `report` the table
and the JSON; each module of `suites` holds the rows of one suite. A new row is a decorated function there.
"""
