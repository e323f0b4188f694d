"""What lies at a path, asked without a fault: where nobody may look, there is nothing.

`pathlib` raises there until Python 3.14, and a folder above a project may be somebody else's. Only where
"nothing" and "not to be known" must differ is `pathlib` asked.
"""

from os.path import exists as is_there
from os.path import isdir as is_folder
from os.path import isfile as is_file
from os.path import islink as is_link

__all__ = ["is_file", "is_folder", "is_link", "is_there"]
