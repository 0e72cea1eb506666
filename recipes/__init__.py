"""Training recipes: one script a task, named configurations, typed overrides."""
