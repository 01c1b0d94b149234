"""The terminal output of commands: tables, timelines, followed files. It knows no cluster."""
