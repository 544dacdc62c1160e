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
    let whole = format!("import io\nimport pandas as pd\n{program}\n");
    let told = match lint_python(PythonLibraries::Pandas, &whole) {
        Ok(()) => String::new(),
        Err(refusal) => refusal.to_string(),
    };
    assert_eq!(told, expected, "{program}");
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
        (PythonLibraries::Pandas, "pandas.api", false),
        (PythonLibraries::Pandas, "pandas.io", false),
        (PythonLibraries::Pandas, "numpy.lib", false),
        (PythonLibraries::Pandas, "numpy.ctypeslib", false),
    ] {
        let judged = lint_python(libraries, &format!("import {module}\n"));
        assert_eq!(judged.is_ok(), opens, "{libraries:?} {module}");
    }
}

#[test]
fn what_opens_files_or_calls_by_name_is_refused_in_tables() {
    for attack in [
        "pd.read_csv('a')",
        "pd.read_csv(path)",
        "pd.read_csv(*[io.StringIO('a')])",
        "pd.read_csv(filepath_or_buffer='a')",
        "read = pd.read_csv",
        "map(pd.read_csv, ['a'])",
        "from pandas import read_csv",
        "from numpy import loadtxt as l",
        "np.loadtxt('a')",
        "np.genfromtxt(['1 2'])",
        "io.StringIO = str\npd.read_csv(io.StringIO('a'))",
        "for io.StringIO in [str]:\n    pd.read_csv(io.StringIO('a'))",
        "from io import StringIO\nStringIO = str\npd.read_csv(StringIO('a'))",
        "from io import StringIO\ndef StringIO(a): return a\npd.read_csv(StringIO('a'))",
        "from io import StringIO\nmatch str:\n    case StringIO:\n        pd.read_csv(StringIO('a'))",
        "from io import StringIO\nfrom copy import copy as StringIO\npd.read_csv(StringIO('a'))",
        "match x:\n    case io:\n        pd.read_csv(io.StringIO('a'))",
        "pd.read_pickle('a')",
        "pd.ExcelFile('a')",
        "pd.io.common",
        "pd.eval('1')",
        "np.load('a')",
        "np.save('a', x)",
        "np.memmap('a')",
        "np.fromfile('a')",
        "np.lib.format",
        "np.testing.rundocs",
        "np.f2py",
        "x.tofile('a')",
        "x.ctypes",
        "x.dump('a')",
        "np.random.default_rng().bit_generator.cffi",
        "t.to_csv('a')",
        "t.to_csv(path_or_buf='a')",
        "t.to_csv(**k)",
        "t.to_csv(*k)",
        "t.to_string(buf='a')",
        "f = t.to_csv",
        "pd.DataFrame.to_csv(t, 'a')",
        "getattr(t, 'to_csv')('a')",
        "match t:\n    case object(to_csv=f):\n        f('a')",
        "class A(pd.DataFrame):\n    def f(self): self.to_json('a')",
        "t.to_pickle('a')",
        "t.to_parquet('a')",
        "t.to_excel('a')",
        "t.query('x > 1')",
        "t.eval('x')",
        "t.style",
        "t.plot(backend='a')",
        "t.agg('to_csv', 0, 'a')",
        "t.agg('to_csv', path_or_buf='a')",
        "t.agg(func='to_csv', path_or_buf='a')",
        "t.apply(f, args=('a',))",
        "t.apply('to_csv', **k)",
        "t.transform('to_csv', 0, 'a')",
        "t.pivot_table(aggfunc='to_csv', path_or_buf='a')",
        "pd.pivot_table(t, aggfunc='to_csv', buf='a')",
        "pd.set_option('plotting.backend', 'a')",
        "pd.set_option(name, 'a')",
        "pd.set_option('display.width', 9, 'plotting.backend', 'a')",
        "pd.options.plotting",
    ] {
        assert!(is_refused(PythonLibraries::Pandas, attack), "{attack}");
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
        "t['a'].dt.year, t['b'].str.lower(), t.iloc[0], t.loc[:, 'a'].values.tolist()",
    ] {
        check(ordinary, "");
    }
}

#[test]
fn the_way_out_is_told() {
    check(
        "pd.read_csv('a.csv')",
        "line 3, column 4: `read_csv` opens what it is given: write `io.StringIO(…)` of a text where it is \
         called, as its first argument: `pandas.read_csv(io.StringIO(workspace_tools.read_text_file(path)))`",
    );
    check(
        "t.to_csv('a.csv')",
        "line 3, column 3: `to_csv` writes to what it is given: call it without a path, and write the text \
         by `workspace_tools.write_file`",
    );
    check(
        "from pandas import read_csv",
        "line 3, column 20: `pandas.read_csv` is imported by its name: write `import pandas`, and \
         `pandas.read_csv(…)`",
    );
}
