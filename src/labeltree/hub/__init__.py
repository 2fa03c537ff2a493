"""Publishing models: addresses such as hf://user/name, a cache for what is downloaded, and model cards."""
