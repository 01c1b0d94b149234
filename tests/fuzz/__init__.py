"""Coverage-guided fuzzing of what strangers send: the long run, and its seeds as tests (docs/evidence)."""
