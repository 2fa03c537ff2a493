"""What measure.py asks of each competitor; a module each, all with the same functions.

load(folder)                          what training starts from, in the form that the library takes
train(data, path, threads, options)   (model, parts); parts may hold tree_s and read_s
save(model, path)                     write the model if training did not; return the model that predicts
queries(X)                            rows in the form that the library takes; can be sliced
batch(model, queries, threads)        what the library answers to all rows
top(found)                            the labels of that answer, best first, a sequence a row
single(model)                         a function that predicts one query on one thread
file_to_read(folder), read(path, ...) the library's own reader, where it has one
"""
