"""stand-in."""
import numpy as np
class Dataset:
    def __init__(self,X,Y,label_names=None): self.X=X; self.Y=Y; self.label_names=label_names; self.instances,self.features=X.shape; self.labels=Y.shape[1]
def csr_arrays(m):
    return m.indptr.astype(np.int64), m.indices.astype(np.int32,copy=False), m.data.astype(np.float32,copy=False)
