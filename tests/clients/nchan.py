"""Debian's nginx with Nchan: what clients of it are answered by the real one."""

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from ports import free_port
from servers import START

#: Its subscribers are sent away after this time, seconds.
TIMEOUT = 3

CONFIG = """
load_module /usr/lib/nginx/modules/ngx_nchan_module.so;
daemon off; worker_processes 1; pid {folder}/pid;
events {{ worker_connections 512; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    nchan_message_buffer_length 100; nchan_message_timeout 1h; nchan_channel_id $1; nchan_channel_id_split_delimiter ",";
    location ~ ^/sub/(.+)$ {{ nchan_subscriber; nchan_subscriber_timeout {timeout}; }}
    location ~ ^/poll/(.+)$ {{ nchan_subscriber interval-poll; }}
    location ~ ^/pub/(.+)$ {{ nchan_publisher; }}
    location ~ ^/pubsub/(.+)$ {{ nchan_pubsub; nchan_subscriber_timeout {timeout}; }}
  }}
}}
"""


class Reference:
    """It, as a child process on a free loopback port."""

    def __init__(self):
        self.folder, self.port, self.process = Path(tempfile.mkdtemp(prefix="throng-nchan-")), free_port(), None

    def start(self):
        """Starts it."""
        (self.folder / "conf").write_text(CONFIG.format(folder=self.folder, port=self.port, timeout=TIMEOUT))
        # Its workers are somebody else, and write there.
        self.folder.chmod(0o777)
        with open(self.folder / "log", "wb") as log:
            command = ["nginx", "-e", "stderr", "-c", str(self.folder / "conf")]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + START
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                text = (self.folder / "log").read_text(errors="replace")
                assert self.process.poll() is None and time.monotonic() < deadline, text
                time.sleep(0.05)

    def stop(self):
        """Ends it, by its process."""
        try:
            if self.process and self.process.poll() is None:
                self.process.terminate()
                self.process.wait(10)
        finally:
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
