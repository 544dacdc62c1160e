// Checks JSON values with Ajv: each line on standard input is a value, and gets a line with the list of
// what is wrong with it. The first value is the schema of the others. `node schema_validator.mjs DIRECTORY`,
// where DIRECTORY has the library.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const load = createRequire(`${process.argv[2]}/`);
const { Ajv2020 } = load("ajv/dist/2020.js");
const addFormats = load("ajv-formats");

const ajv = new Ajv2020({ allErrors: true, strictTypes: false });
addFormats(ajv);
// Sizes of integers, for generators of code.
for (const size of ["uint", "uint8", "uint32", "uint64"]) ajv.addFormat(size, true);
let validate;
for await (const line of createInterface({ input: process.stdin })) {
  const value = JSON.parse(line);
  let errors = [];
  if (validate) {
    errors = validate(value) ? [] : validate.errors.map((error) => `${error.instancePath} ${error.message}`);
  } else {
    validate = ajv.compile(value);
  }
  console.log(JSON.stringify(errors));
}
