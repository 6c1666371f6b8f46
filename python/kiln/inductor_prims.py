"""Here so that scripts written for PyTorch's Inductor, which import a module of this name, run as they are."""
