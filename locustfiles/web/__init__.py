"""Locust's web UI for soaks: a tab of figures, a page of live charts, the start form, the run folder's files."""
