"""Writes two JPEG files and the pixels that libjpeg decodes from them.

    python3 -m venv .venv && .venv/bin/pip install pillow
    .venv/bin/python tests/oracles/images/make.py

The results are committed: tests never run this. Made with Pillow 13.0.0.
"""

import json
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent
HEIGHT, WIDTH = 13, 21  # no multiple of 8, so that blocks are cut


def value(y, x, channel):
    return (7 * y + (3 + channel) * x + 11 * ((y // 3 + x // 4) % 3) + 40 * channel) % 256


def write(name, mode, channels, **options):
    image = Image.new(mode, (WIDTH, HEIGHT))
    for y in range(HEIGHT):
        for x in range(WIDTH):
            pixel = tuple(value(y, x, c) for c in range(channels))
            image.putpixel((x, y), pixel if channels > 1 else pixel[0])
    image.save(HERE / f"{name}.jpg", quality=90, **options)
    return list(Image.open(HERE / f"{name}.jpg").tobytes())


pixels = {
    "grey": write("grey", "L", 1),
    "colour": write("colour", "RGB", 3, subsampling="4:4:4", progressive=True),
}
(HERE / "images.json").write_text(json.dumps(pixels) + "\n")
