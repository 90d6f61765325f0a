"""The search for capacity: the highest load whose failures stay within the objective."""
