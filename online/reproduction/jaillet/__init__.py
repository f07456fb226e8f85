"""[J25]: tables and figures measured again."""
