"""Adds this package's ``configs/`` to Hydra's search path, so that no ``--config-dir`` is needed."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from subgroup_offset.paths import config_dir


class SubgroupOffsetSearchPath(SearchPathPlugin):
    """Appended, never prepended: a config of the user's or of verl's wins over one of the same name here."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append(provider="subgroup-offset", path=f"file://{config_dir()}")
