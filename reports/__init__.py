"""Observer, run folder, statistics, verdict, plots and the HTML report. Knows nothing of Locust, engine or target."""
