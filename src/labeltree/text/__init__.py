"""Text: reading files of documents, and turning documents into TF-IDF features."""
