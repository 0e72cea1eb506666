"""Named configurations, one module a recipe or paper table."""
