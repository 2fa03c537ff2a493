"""scikit-learn: the estimator `LabelTreeClassifier`, and scorers for ``scoring=``."""
