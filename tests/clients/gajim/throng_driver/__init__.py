from .plugin import ThrongDriver  # Gajim takes the first name that there is
