"""What the Linux host must give: namespaces, addresses, routes, ESP, limits."""
