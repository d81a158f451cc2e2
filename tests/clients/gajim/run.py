"""Starts Debian's Gajim with one account and the driver, and nothing else in its home: run.py HOME NAME PORT CERTIFICATE.

Gajim refuses to run as root, which tests in a container are: it is told that it is somebody else."""

import os
import shutil
import sys
from pathlib import Path

home, name, password, port, certificate = sys.argv[1:]

from gajim.common import configpaths  # noqa: E402

first = not Path(home).exists()
configpaths.set_config_root(home)
configpaths.init()
if first:
    Path(home).mkdir(parents=True)
    configpaths.create_paths()
    shutil.copytree(Path(__file__).parent / "throng_driver", configpaths.get("PLUGINS_USER") / "throng_driver")
    shutil.copy(certificate, configpaths.get("CERT_STORE") / "server")
    from gajim.common.settings import Settings

    settings = Settings()
    settings.init()
    for setting, value in {"use_keyring": False, "check_for_update": False, "remote_control": False}.items():
        settings.set_app_setting(setting, value)
    settings.set_plugin_setting("throng_driver", "active", True)
    settings.add_account("main")
    for setting, value in {
        "name": name, "hostname": "localhost", "password": password, "savepass": True, "active": True,
        "resource": "gajim", "autoconnect": True, "use_custom_host": True, "custom_host": "127.0.0.1",
        "custom_port": int(port), "custom_type": "START TLS",
    }.items():
        settings.set_account_setting("main", setting, value)
    settings.save()
    settings.close()
    # A child, so that Gajim begins with nothing loaded.
    os.execv(sys.executable, [sys.executable, *sys.argv])

os.geteuid = lambda: 1000
sys.argv = ["gajim", "-c", home, "--verbose"] if os.environ.get("GAJIM_VERBOSE") else ["gajim", "-c", home]
for module in [name for name in sys.modules if name.startswith("gajim")]:
    del sys.modules[module]

from gajim.gajim import main  # noqa: E402

main()
