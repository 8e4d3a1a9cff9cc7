"""Files wherever Spark keeps them: this machine, HDFS, an object store.

Through Hadoop's file systems, as Spark itself goes, so that a job's bookkeeping lies beside its data
whatever the path says. A file's appearance is one step (`put` writes aside and renames); on object
stores, where a rename is a copy, it is still whole before it can be seen.
"""

from __future__ import annotations

import uuid
from typing import Any

from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError


class Files:
    """One file system: that of a path. Paths are texts, as Spark takes them."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm: Any = spark._jvm
        home = self._path(path)
        self._fs: Any = home.getFileSystem(spark._jsc.hadoopConfiguration())

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def whole(self, path: str) -> str:
        """With the file system in front: what it means does not depend on where one stands."""
        return str(self._fs.makeQualified(self._path(path)).toString())

    def local(self, path: str) -> str | None:
        """The same for this machine's own tools; None where it lies elsewhere."""
        uri = self._fs.makeQualified(self._path(path)).toUri()
        return str(uri.getPath()) if uri.getScheme() == "file" else None

    def exists(self, path: str) -> bool:
        return bool(self._fs.exists(self._path(path)))

    def names(self, folder: str) -> list[str]:
        """What is in a folder; nothing where there is none."""
        where = self._path(folder)
        if not self._fs.exists(where):
            return []
        return sorted(str(found.getPath().getName()) for found in self._fs.listStatus(where))

    def below(self, folder: str) -> list[str]:
        """All files below a folder, by their paths from there."""
        top = str(self._fs.makeQualified(self._path(folder)).toUri().getPath()).rstrip("/") + "/"
        found, each = [], self._fs.listFiles(self._path(folder), True)
        while each.hasNext():
            found.append(str(each.next().getPath().toUri().getPath()).removeprefix(top))
        return sorted(found)

    def move(self, source: str, target: str) -> None:
        """A file to a name that nobody has; its folder is made."""
        to = self._path(target)
        self._fs.mkdirs(to.getParent())
        if not self._fs.rename(self._path(source), to):
            raise HoldfastError(
                f"could not move {source} to {target}; the file system says no more"
            )

    def delete(self, path: str) -> None:
        """A file, or a folder and all in it; nothing where there is none."""
        self._fs.delete(self._path(path), True)

    def read(self, path: str) -> str:
        stream = self._fs.open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def put(self, path: str, text: str) -> None:
        """A new file with this text: there with all of it, or not at all."""
        aside = f"{path.rpartition('/')[0]}/.{uuid.uuid4().hex}"
        self._fs.mkdirs(self._path(path).getParent())
        stream = self._fs.create(self._path(aside), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.move(aside, path)
