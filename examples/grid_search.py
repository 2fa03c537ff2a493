"""Choose `cost` and `clusters` by cross-validated P@5.

python examples/grid_search.py train.svm test.svm
"""

import sys

from sklearn.model_selection import GridSearchCV

import labeltree

train = labeltree.read_data(sys.argv[1])  # LIBSVM or documents
test = labeltree.read_data(sys.argv[2], like=train).widen(train.n_features)
test = test.align(train.label_names, train.n_labels)

search = GridSearchCV(
    labeltree.LabelTreeClassifier(threads=1),
    {"cost": [0.1, 0.3, 1.0], "clusters": [10, 100]},
    scoring={"P@5": labeltree.scorers.precision_at(5), "nDCG@5": labeltree.scorers.ndcg_at(5)},
    refit="P@5",
    cv=3,
    n_jobs=-1,  # one process per CPU, so one thread per process
).fit(train.X, train.Y)

results = search.cv_results_
for row in results["rank_test_P@5"].argsort():
    scores = " ".join(f"{name} {100 * results[f'mean_test_{name}'][row]:.1f}" for name in ("P@5", "nDCG@5"))
    print(results["params"][row], scores)
print("best", search.best_params_, f"P@5 on the test file {100 * search.score(test.X, test.Y):.1f}")
