//! What programs may do with tables, and what is refused when a config adds the table libraries.

use super::*;

/// Returns whether `program`, preceded by imports of these libraries, is refused.
fn is_refused(libraries: PythonLibraries, program: &str) -> bool {
    let imports = match libraries {
        PythonLibraries::Standard => "import io",
        PythonLibraries::Numpy => "import io\nimport numpy as np",
        PythonLibraries::Pandas => "import io\nimport numpy as np\nimport pandas as pd",
    };
    lint_python(libraries, &format!("{imports}\n{program}\n")).is_err()
}

#[track_caller]
fn check(program: &str, expected: &str) {
    let source = format!("import io\nimport pandas as pd\n{program}\n");
    let message = match lint_python(PythonLibraries::Pandas, &source) {
        Ok(()) => String::new(),
        Err(refusal) => refusal.to_string(),
    };
    assert_eq!(message, expected, "{program}");
}

#[test]
fn a_library_is_open_where_the_config_says_so() {
    for (libraries, module, opens) in [
        (PythonLibraries::Standard, "numpy", false),
        (PythonLibraries::Standard, "pandas", false),
        (PythonLibraries::Numpy, "numpy", true),
        (PythonLibraries::Numpy, "numpy.linalg", true),
        (PythonLibraries::Numpy, "pandas", false),
        (PythonLibraries::Pandas, "numpy", true),
        (PythonLibraries::Pandas, "pandas", true),
        (PythonLibraries::Pandas, "pandas.api.types", true),
        (PythonLibraries::Pandas, "pandas.api", true),
        (PythonLibraries::Pandas, "pandas.tseries.offsets", true),
        (PythonLibraries::Pandas, "numpy.typing", true),
        (PythonLibraries::Numpy, "pandas.api.types", false),
        (PythonLibraries::Pandas, "numpyro", false),
    ] {
        let judged = lint_python(libraries, &format!("import {module}\n"));
        assert_eq!(judged.is_ok(), opens, "{libraries:?} {module}");
    }
}

#[test]
fn tables_at_paths_are_refused() {
    for closed in [
        "pd.read_csv('a')",
        "pd.read_csv(f'{name}.csv')",
        "from pandas import read_csv as r\nr('a')",
        "import numpy\nnumpy.loadtxt('a')",
        "from numpy import loadtxt as l\nl('a')",
        "pd.read_pickle('a')",
        "pd.eval('1')",
        "np.load('a')",
        "np.save('a', x)",
        "np.memmap('a')",
        "np.fromfile('a')",
        "np.f2py",
        "np.ctypeslib.load_library('c', '/')",
        "x.tofile('a')",
        "t.to_csv('a')",
        "t.groupby('a').sum().to_csv('a')",
        "t.to_pickle('a')",
        "t.to_parquet('a')",
        "t.to_excel('a')",
    ] {
        assert!(is_refused(PythonLibraries::Pandas, closed), "{closed}");
    }
}

#[test]
fn ordinary_work_with_tables_is_let_through() {
    for ordinary in [
        "t = pd.read_csv(io.StringIO(text), sep=';', parse_dates=['day'])",
        "from io import StringIO\nt = pd.read_csv(StringIO(text))",
        "from io import StringIO as S, BytesIO\npd.read_json(BytesIO(data))\nnp.loadtxt(S(text))",
        "import pandas\npandas.read_table(io.StringIO(text))",
        "t.to_csv(index=False)",
        "print(t.to_string(), t.to_json(orient='records'))",
        "t.groupby('a').agg({'b': 'sum'})",
        "t.groupby('a').agg(total=('b', 'sum'), most=('b', max))",
        "t.groupby('a')['b'].agg(['sum', 'mean'])",
        "t.apply(lambda row: row['a'] + row['b'], axis=1)",
        "t.apply(lambda row, n: row['a'] + n, args=(1,), axis=1)",
        "t['a'].apply(str.upper)",
        "t['a'].transform('cumsum')",
        "t.pivot_table(index='a', columns='b', values='c', aggfunc='sum', fill_value=0)",
        "pd.pivot_table(t, index='a')",
        "t[t['a'] > 1].sort_values('a').head(3)",
        "pd.concat([t, u]).merge(v, on='a', how='left').fillna(0)",
        "pd.set_option('display.max_columns', None)",
        "from pandas.api.types import is_numeric_dtype",
        "from pandas import DataFrame, Series",
        "np.linalg.solve(np.array([[1, 2], [3, 5]]), np.array([1, 2]))",
        "rng = np.random.default_rng(1)\nrng.normal(size=3)",
        "t.plotted = 1",
        "t.query('x > 1').agg('sum', axis=0)",
        "t.apply(f, args=('a',))",
        "pd.io.formats",
        "np.genfromtxt(['1 2'])",
        "read = pd.read_csv",
        "np.load(io.BytesIO(data))",
        "t['a'].dt.year, t['b'].str.lower(), t.iloc[0], t.loc[:, 'a'].values.tolist()",
    ] {
        check(ordinary, "");
    }
}

#[test]
fn a_refusal_names_an_allowed_alternative() {
    check(
        "pd.read_csv('a.csv')",
        "line 3, column 4: `read_csv` opens what it is given: read the text by \
         `workspace_tools.read_text_file(path)`, and give `io.StringIO(text)`",
    );
    check(
        "t.to_csv('a.csv')",
        "line 3, column 3: `to_csv` opens what it is given: make a text by `to_csv()` or `to_json()` \
         without a path, and write it by `workspace_tools.write_file`",
    );
}
