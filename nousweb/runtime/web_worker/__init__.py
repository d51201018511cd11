"""The layer between the network and the application: gunicorn's threaded worker, made safe against slow clients."""
