"""Turn an archive of recorded streams into a table with one row per recording.

    row = fold_record(Path("answer.jsonl").read_bytes())     # a recording, or a plain body as `curl -N` saves it
    row["ending"], row["texts"], row["prompt_tokens"]

`fold_record` is for engines that call a function on many records in many processes: it is stateless, is pickled by its
name, and gives every record the same columns. `docs/scale.md` shows it in such engines. The core never imports this
package. `columns` describes the columns, and `folding` fills them.
"""

from chunkfold.archive.columns import AnomalyCount, FoldedRecord, ToolCall, arrow_schema
from chunkfold.archive.folding import fold_record

__all__ = ["AnomalyCount", "FoldedRecord", "ToolCall", "arrow_schema", "fold_record"]
