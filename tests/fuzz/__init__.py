"""Coverage-guided fuzzing of untrusted input: the long run, and its seeds as tests (docs/evidence)."""
