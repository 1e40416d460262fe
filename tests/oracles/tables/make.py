"""Writes the small tables of this folder with the programs that users have; run it by hand.

Made with gensim 4.4.0, numpy 2.4.6, ml_dtypes 0.6.0. Every table holds WORDS and VECTORS.
"""

from pathlib import Path

import ml_dtypes
import numpy as np
from gensim.models import KeyedVectors

HERE = Path(__file__).parent
WORDS = ["the", "caf\u00e9", "x_y"]
VECTORS = np.array([[1, 2, 3, 4], [0.1, 1e-8, -3, 5], [0, -0.0, 1e20, 7]], dtype=np.float32)

words = KeyedVectors(4)
words.add_vectors(WORDS, VECTORS)
words.save_word2vec_format(HERE / "gensim.vec")
words.save_word2vec_format(HERE / "gensim.bin", binary=True)
words.save_word2vec_format(HERE / "gensim.txt", write_header=False)

ids = np.array(WORDS)
np.savez(HERE / "stored.npz", ids=ids, vectors=VECTORS)
np.savez_compressed(HERE / "deflated.npz", ids=ids, vectors=VECTORS.astype(np.float64))
np.savez(HERE / "fortran.npz", ids=np.char.encode(ids, "utf-8"), vectors=np.asfortranarray(VECTORS))
np.savez_compressed(HERE / "fortran-deflated.npz", vectors=np.asfortranarray(VECTORS))
np.savez(HERE / "bfloat16.npz", emb=VECTORS.astype(ml_dtypes.bfloat16), n=np.array([3, 1, 2]))
np.savez(HERE / "objects.npz", ids=np.array(["a", 1, None], dtype=object), vectors=VECTORS)
