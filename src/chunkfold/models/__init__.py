"""The pydantic models of chunks (as sent) and of completions (as assembled).

In: validated JSON. Out: typed chunks, and the message that they fold into. Read `chunk` first, then `completion` and
`message`. Two modules hold what providers' words mean: `content`, every spelling of text and reasoning, and `outcome`,
every finish word; `wire/envelopes` turns the words for errors into errors.
"""
