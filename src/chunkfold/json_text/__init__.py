"""Parse JSON in a text, complete or still being written; independent of chat completions.

Input: a text, in pieces if needed. Output: a value, optionally of a type, or a `ParseError` with the place where the
text is not what was expected. Read in this order:

- `values`, `surrogates`: the type of a JSON value and places in it, text without half characters;
- `grammar`: patterns for the tokens of JSON in a text that may end inside any of them;
- `parsing`: how a whole text is read and validated;
- `shapes`: the parts of a type that can be checked before the value is complete;
- `partial`: `PartialJSON`, the reader of a text that is still being written, and `parse_json`.
"""
