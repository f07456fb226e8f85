"""Formulas of papers: ratios of policies ([C25], [F26]), bounds and dual prices ([J25])."""
