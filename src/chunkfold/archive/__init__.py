"""An archive of recorded streams as a table: one recording, one row.

    row = fold_record(Path("answer.jsonl").read_bytes())     # a recording, or a plain body as `curl -N` saves it
    row["ending"], row["texts"], row["prompt_tokens"]

`fold_record` is for engines that call a function on many records in many processes: it keeps nothing between two
calls, is found by its name, and gives every record the same columns. `docs/scale.md` shows it in such engines. Beside
the core: nothing in it imports this.
"""

from chunkfold.archive.columns import AnomalyCount, FoldedRecord, ToolCall
from chunkfold.archive.folding import fold_record
from chunkfold.archive.schema import arrow_schema

__all__ = ["AnomalyCount", "FoldedRecord", "ToolCall", "arrow_schema", "fold_record"]
