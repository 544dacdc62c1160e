//! The open members of the libraries that a config can add. Only listed members are open: both
//! libraries contain modules that open files, run strings as code and import by name.

/// Members of `numpy`.
#[rustfmt::skip]
pub(super) const NUMPY: &[&str] = &[
    "__version__", "abs", "absolute", "add", "all", "allclose", "amax", "amin", "angle", "any",
    "append", "apply_along_axis", "apply_over_axes", "arange", "arccos", "arccosh", "arcsin",
    "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argpartition", "argsort",
    "argwhere", "around", "array", "array2string", "array_equal", "array_split", "array_str",
    "asarray", "astype", "atleast_1d", "atleast_2d", "atleast_3d", "average", "bartlett",
    "bincount", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "blackman", "bool_",
    "broadcast_arrays", "broadcast_to", "cbrt", "ceil", "choose", "clip", "column_stack",
    "complex128", "complex64", "compress", "concatenate", "conj", "conjugate", "convolve", "copy",
    "copysign", "corrcoef", "correlate", "cos", "cosh", "count_nonzero", "cov", "cross", "cumprod",
    "cumsum", "datetime64", "deg2rad", "degrees", "delete", "diag", "diagonal", "diff", "digitize",
    "divide", "divmod", "dot", "dsplit", "dstack", "dtype", "e", "ediff1d", "einsum", "empty",
    "empty_like", "equal", "errstate", "exp", "exp2", "expand_dims", "expm1", "extract", "eye",
    "fabs", "finfo", "flatnonzero", "flip", "fliplr", "flipud", "float32", "float64", "floor",
    "floor_divide", "fmax", "fmin", "fmod", "frombuffer", "fromiter", "full", "full_like", "gcd",
    "genfromtxt", "geomspace", "gradient", "greater", "greater_equal", "hamming", "hanning",
    "heaviside", "histogram", "histogram2d", "histogram_bin_edges", "hsplit", "hstack", "hypot",
    "identity", "iinfo", "imag", "in1d", "indices", "inf", "inner", "insert", "int16", "int32",
    "int64", "int8", "integer", "interp", "intersect1d", "isclose", "isfinite", "isin", "isinf",
    "isnan", "isscalar", "kron", "lcm", "less", "less_equal", "lexsort", "linspace", "loadtxt",
    "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "logspace", "matmul", "max", "maximum", "mean", "median", "meshgrid", "min",
    "minimum", "mod", "moveaxis", "multiply", "nan", "nan_to_num", "nanargmax", "nanargmin",
    "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanquantile",
    "nanstd", "nansum", "nanvar", "ndarray", "ndenumerate", "ndindex", "negative", "newaxis",
    "nonzero", "not_equal", "number", "ones", "ones_like", "outer", "pad", "partition",
    "percentile", "pi", "piecewise", "place", "poly1d", "polyfit", "polyval", "power", "prod",
    "ptp", "put", "quantile", "rad2deg", "radians", "ravel", "real", "reciprocal", "remainder",
    "repeat", "reshape", "resize", "rint", "roll", "rollaxis", "roots", "rot90", "round",
    "searchsorted", "select", "set_printoptions", "setdiff1d", "setxor1d", "shape", "sign", "sin",
    "sinc", "sinh", "size", "sort", "split", "sqrt", "square", "squeeze", "stack", "std",
    "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile",
    "timedelta64", "trace", "transpose", "trapezoid", "trapz", "tri", "tril", "triu", "trunc",
    "uint16", "uint32", "uint64", "uint8", "union1d", "unique", "unravel_index", "unwrap",
    "vander", "var", "vdot", "vectorize", "vsplit", "vstack", "where", "zeros", "zeros_like",
];

/// Members of `numpy.fft`.
#[rustfmt::skip]
pub(super) const FFT: &[&str] = &[
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift", "irfft",
    "rfft", "rfftfreq",
];

/// Members of `numpy.linalg`.
#[rustfmt::skip]
pub(super) const LINALG: &[&str] = &[
    "LinAlgError", "cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq",
    "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "svd",
];

/// Members of `numpy.random`.
#[rustfmt::skip]
pub(super) const RANDOM: &[&str] = &[
    "Generator", "RandomState", "beta", "binomial", "choice", "default_rng", "exponential",
    "gamma", "lognormal", "multivariate_normal", "normal", "permutation", "poisson", "rand",
    "randint", "randn", "random", "random_sample", "seed", "shuffle", "standard_normal", "uniform",
];

/// Members of `pandas`.
#[rustfmt::skip]
pub(super) const PANDAS: &[&str] = &[
    "Categorical", "CategoricalDtype", "CategoricalIndex", "DataFrame", "DateOffset",
    "DatetimeIndex", "Grouper", "Index", "Int64Dtype", "Interval", "IntervalIndex", "MultiIndex",
    "NA", "NaT", "Period", "PeriodIndex", "RangeIndex", "Series", "StringDtype", "Timedelta",
    "TimedeltaIndex", "Timestamp", "__version__", "array", "bdate_range", "concat", "crosstab",
    "cut", "date_range", "factorize", "from_dummies", "get_dummies", "infer_freq",
    "interval_range", "isna", "isnull", "json_normalize", "lreshape", "melt", "merge",
    "merge_asof", "merge_ordered", "notna", "notnull", "period_range", "pivot", "pivot_table",
    "qcut", "read_csv", "read_fwf", "read_json", "read_table", "set_option", "timedelta_range",
    "to_datetime", "to_numeric", "to_timedelta", "unique", "value_counts", "wide_to_long",
];

/// Members of `pandas.api.types`.
#[rustfmt::skip]
pub(super) const TYPES: &[&str] = &[
    "is_bool_dtype", "is_datetime64_any_dtype", "is_dict_like", "is_float_dtype",
    "is_integer_dtype", "is_list_like", "is_number", "is_numeric_dtype", "is_object_dtype",
    "is_scalar", "is_string_dtype", "is_timedelta64_dtype",
];
