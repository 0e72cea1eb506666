import os

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # or TensorFlow asks the network what TPU this machine has
