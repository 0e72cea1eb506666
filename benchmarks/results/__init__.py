"""Evidence on real images: the runs, their tables and the picture of docs/results.md."""
