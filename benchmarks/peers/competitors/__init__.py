"""One module per competitor, all with the functions that measure.py calls.

load(folder)                          return the training data in the form the library takes
train(data, path, threads, options)   return (model, parts); parts may hold tree_s and read_s
save(model, path)                     write the model if training did not; return the model for prediction
queries(X)                            return rows in the form the library takes; can be sliced
batch(model, queries, threads)        return the library's predictions for all rows
top(found)                            return the predicted labels, best first, one sequence per row
single(model)                         return a function that predicts one query on one thread
file_to_read(folder), read(path, ...) the library's own reader, if it has one
"""
