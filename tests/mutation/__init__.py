"""Whether the tests that decide about a change still find the faults that tests outside of that set find.

Some tests have left the deciding set, since they take long. Faults are planted in lines that those tests
execute, and the tests that stayed are to find them::

    python -m tests.mutation --work FOLDER record --stayed IDS (--left IDS | --before IDS) [-- pytest's words]
    python -m tests.mutation --work FOLDER draw --seed 38 --count 40
    python -m tests.mutation --work FOLDER run [--minutes 240] [-- pytest's words]
    python -m tests.mutation --work FOLDER report

A file of IDS has one node id, file or folder in a line, and may be the output of ``pytest --collect-only
-q``. With ``--before``, the tests that left are those of this listing that did not stay. ``record`` and
``run`` go on where an earlier call was interrupted. Everything happens in clones of the commit (``tree``), in
FOLDER; Hypothesis repeats the same examples, as in every run.

Modules: ``probe`` and ``plugin`` record the statements that each test executes, ``mutants`` draws faults,
``verdicts`` runs tests against them, ``report`` writes the table, ``work`` reads and writes FOLDER.
"""
