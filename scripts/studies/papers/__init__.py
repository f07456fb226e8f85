"""Where the package has what the papers state: read from its citations, written as a page."""
