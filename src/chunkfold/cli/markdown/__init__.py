"""Markdown, drawn while it is written: a row is given out as soon as nothing that follows can change it.

`lines.MarkdownRows` finds the blocks line by line, as CommonMark has them: quotes and list items around headings,
paragraphs, code and tables. `blocks` turns each into rows, `inline` reads what stands in a line, `wrapping` breaks it.
What is held back is bounded, so that a piece costs the same however long the answer is.

Other than in CommonMark, the end of a short line stays one, HTML is text, and an underlined heading is a line above a
rule. Links show where they lead. Everything passes `harmless`, also what an entity stood for.
"""
