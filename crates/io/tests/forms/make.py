"""Writes the tables of this folder, each with the library that people write it with.

    pip install pandas polars pyarrow numpy pyspark    # pyspark needs Java 17
    python crates/io/tests/forms/make.py

Written with pandas 3.1.1, polars 2.1.0, pyarrow 26.0.1, numpy 2.4.6 and pyspark 4.3.0.
`crates/io/tests/forms.rs` reads every file and checks ids, vectors and notes.
"""

import shutil
import tempfile
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
ROWS = [[0.5, -1.25, 2.0], [0.1, 3.0, -0.75], [0.001, 4.0, 8.5]]
SINGLE = np.array(ROWS, dtype="<f4")
IDS = [7, 8, 10]
LARGE = [7, 2**63, 2**64 - 1]
UUIDS = [uuid.UUID(int=n) for n in (1, 0x00112233445566778899AABBCCDDEEFF, 2**128 - 1)]
INTEGERS = [[1, -2, 3], [4, 5, -128], [127, 0, 9]]


def path(name):
    return HERE / name


def wide(names, **columns):
    frame = {name: SINGLE[:, k] for k, name in enumerate(names)}
    return pd.DataFrame(columns | frame)


def by_pandas():
    dims = ["dim_0", "dim_1", "dim_2"]
    frame = wide(dims, item_id=IDS)
    frame.to_parquet(path("pandas_wide.parquet"), index=False)
    # The index is named: `item_id` is an index in Python and a column in the file.
    frame.set_index("item_id").to_parquet(path("pandas_index.parquet"))
    # The index counts: pandas keeps it in the metadata alone.
    counted = wide(dims).set_index(pd.RangeIndex(7, 10, name="item_id"))
    counted.to_parquet(path("pandas_range.parquet"))
    # The index has no name: the column is called `__index_level_0__`.
    unnamed = pd.DataFrame(SINGLE, index=["a", "b", "c"], columns=["0", "1", "2"])
    unnamed.to_parquet(path("pandas_index_level.parquet"))
    # An index that went through CSV.
    frame.to_csv(path("pandas_index.csv"))
    again = pd.read_csv(path("pandas_index.csv"))
    again.to_parquet(path("pandas_unnamed.parquet"), index=False)
    again.to_csv(path("pandas_unnamed.csv"), index=False)
    # A matrix, with and without its index.
    matrix = pd.DataFrame(SINGLE)
    matrix.to_csv(path("pandas_matrix_index.csv"))
    matrix.to_csv(path("pandas_matrix.csv"), index=False)
    # A matrix whose index holds the ids.
    matrix.set_index(pd.Index(IDS)).to_csv(path("pandas_matrix_ids.csv"))
    # The ids are a column without a name of its own.
    unnamed_ids = pd.concat([pd.Series(IDS), matrix], axis=1, ignore_index=True)
    unnamed_ids.to_csv(path("pandas_column_0.csv"), index=False)
    # A missing id makes all of them floats.
    some = pd.DataFrame({"item_id": [7, None, 10], "vector": [list(row) for row in SINGLE]})
    some.to_parquet(path("pandas_null_id.parquet"), index=False)
    some.dropna().to_parquet(path("pandas_float_id.parquet"), index=False)
    wide(dims, item_id=[7, None, 10]).to_csv(path("pandas_null_id.csv"), index=False)
    # An id twice.
    twice = pd.DataFrame({"item_id": [7, 8, 7], "vector": [list(row) for row in SINGLE]})
    twice.to_parquet(path("pandas_twice.parquet"), index=False)
    # Bytes of a UUID are `binary` without a length.
    ids = [one.bytes for one in UUIDS]
    frame = pd.DataFrame({"id": ids, "vector": [list(row) for row in SINGLE]})
    frame.to_parquet(path("pandas_uuid.parquet"), index=False)
    # Exports of a warehouse: capitals, lists as text.
    lists = [str([float(x) for x in row]) for row in ROWS]
    export = pd.DataFrame({"ITEM_ID": IDS, "TITLE": ["x", "y", "z"], "EMBEDDING": lists})
    export.to_csv(path("warehouse.csv"), index=False)
    # Other separators; in some countries, other points.
    frame = wide(dims, item_id=IDS)
    frame.to_csv(path("semicolon.csv"), index=False, sep=";")
    frame.to_csv(path("pipe.csv"), index=False, sep="|")
    frame.to_csv(path("decimal_comma.csv"), index=False, sep=";", decimal=",")
    # Columns in no order, beside a title.
    frame = wide(["v1", "v2", "v3"], item_id=IDS, title=["x", "y", "z"])
    frame[["v3", "title", "v1", "item_id", "v2"]].to_csv(path("shuffled.csv"), index=False)
    for name, start, between, end in [
        ("postgres_array.csv", "{", ",", "}"),
        ("list_pipe.csv", "", "|", ""),
        ("list_semicolon.csv", "", ";", ""),
    ]:
        lists = [start + between.join(str(x) for x in row) + end for row in ROWS]
        pd.DataFrame({"id": IDS, "vector": lists}).to_csv(path(name), index=False)


def by_polars():
    columns = {f"v{k + 1}": SINGLE[:, k] for k in range(3)}
    frame = pl.DataFrame({"Item_Id": IDS} | columns)
    frame.write_parquet(path("polars_wide.parquet"))
    frame.write_ipc(path("polars_wide.arrow"))
    ids = pl.Series("id", LARGE, dtype=pl.UInt64)
    vectors = pl.Series("vector", ROWS, dtype=pl.List(pl.Float32))
    frame = pl.DataFrame([ids, vectors])
    frame.write_parquet(path("polars_u64.parquet"))
    frame.write_ipc(path("polars_u64.arrow"))
    arrays = pl.Series("vector", ROWS, dtype=pl.Array(pl.Float64, 3))
    small = pl.Series("id", IDS, dtype=pl.UInt64)
    pl.DataFrame([small, arrays]).write_parquet(path("polars_array.parquet"))
    inside = pl.Series("features", [{"model": "m", "values": row} for row in ROWS])
    pl.DataFrame([pl.Series("id", IDS), inside]).write_parquet(path("polars_struct.parquet"))


def by_pyarrow():
    vectors = pa.array(ROWS, pa.list_(pa.float32()))
    large = pa.table({"id": pa.array(LARGE, pa.uint64()), "vector": vectors})
    pq.write_table(large, path("pyarrow_u64_no_statistics.parquet"), write_statistics=False)
    ids = pa.array([one.bytes for one in UUIDS], pa.binary(16))
    pq.write_table(pa.table({"id": ids, "vector": vectors}), path("pyarrow_binary16.parquet"))
    ids = pa.ExtensionArray.from_storage(pa.uuid(), ids)
    pq.write_table(pa.table({"id": ids, "vector": vectors}), path("pyarrow_uuid.parquet"))
    # Coordinates beside another number.
    columns = {f"dim_{k}": SINGLE[:, k] for k in range(3)}
    pq.write_table(pa.table({"id": IDS, "price": ROWS[0]} | columns), path("mixed.parquet"))


def by_numpy():
    np.save(path("numpy_int8.npy"), np.array(INTEGERS, dtype=np.int8))
    np.save(path("numpy_uint8.npy"), np.array(INTEGERS).astype(np.uint8))
    np.save(path("numpy_int16.npy"), np.array(INTEGERS, dtype=">i2"))
    for kind in ["f2", "f4", "f8"]:
        np.save(path(f"numpy_big_{kind}.npy"), SINGLE.astype(">" + kind))
    ids = np.array(LARGE, dtype=np.uint64)
    np.savez(path("numpy_u64.npz"), ids=ids, vectors=SINGLE)


def by_spark():
    from pyspark.ml.linalg import Vectors
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = spark.getOrCreate()
    dense = [(key, Vectors.dense(row)) for key, row in zip(IDS, ROWS, strict=True)]
    sparse = [(20, Vectors.sparse(3, [1], [6.5])), (21, Vectors.sparse(3, [], []))]
    lists = [(key, row) for key, row in zip(IDS, ROWS, strict=True)]
    for name, rows, columns in [
        ("spark_vector.parquet", dense + sparse, ["item_id", "features"]),
        ("spark_array.parquet", lists, ["item_id", "features"]),
    ]:
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / "table"
            frame = spark.createDataFrame(rows, columns).coalesce(1)
            frame.write.option("compression", "none").parquet(str(written))
            (part,) = written.glob("part-*.parquet")
            shutil.copy(part, path(name))
    spark.stop()


if __name__ == "__main__":
    by_pandas()
    by_polars()
    by_pyarrow()
    by_numpy()
    by_spark()
