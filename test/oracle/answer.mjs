// Answers expressions with GitHub's own published implementation, @actions/expressions.
//
//   node answer.mjs MODULES < {"id", "expr", "contexts"} per line > {"id", "raw", "ruled", "rules"} per line
//
// raw is what the package says. ruled is what it says with every rule below in force: a
// rule is one thing in which that package differs from what GitHub's servers and runners
// do (or is known not to do), and its text is in docs/reference/compatibility.md. rules
// lists those that make a difference for this expression, each judged by leaving it out.
import path from "node:path";
import readline from "node:readline";
import {pathToFileURL} from "node:url";

const dist = path.join(path.resolve(process.argv[2]), "@actions/expressions/dist");
const load = name => import(pathToFileURL(path.join(dist, name)));
const {Lexer, Parser, Evaluator, data, wellKnownFunctions} = await load("index.js");
const {Grouping, FunctionCall, ContextAccess, Logical, Binary, Unary, IndexAccess} = await load("ast.js");
const {ErrorType, ExpressionError} = await load("errors.js");
const {TokenType} = await load("lexer.js");
const {validateFunction} = await load("funcs.js");
const {kindStr} = await load("data/expressiondata.js");

const on = new Set();
const patch = (type, name, make) => {
  type[name] = make(type[name]);
};

// number-text: .NET's G15 in text and in JSON, where NaN and the infinities keep their names.
function g15(f) {
  if (Number.isNaN(f)) return "NaN";
  if (!Number.isFinite(f)) return f > 0 ? "Infinity" : "-Infinity";
  if (f === 0) return "0";
  const [mantissa, power] = Math.abs(f).toExponential(14).split("e");
  const exponent = Number(power);
  const digits = mantissa.replace(".", "").replace(/0+$/, "");
  const sign = f < 0 ? "-" : "";
  if (exponent < -4 || exponent >= 15) {
    const fraction = digits.length > 1 ? "." + digits.slice(1) : "";
    return `${sign}${digits[0]}${fraction}E${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.padEnd(exponent + 1, "0");
  return sign + whole.slice(0, exponent + 1) + (whole.length > exponent + 1 ? "." + whole.slice(exponent + 1) : "");
}
patch(data.NumberData.prototype, "coerceString", old => function () {
  return on.has("number-text") ? g15(this.value) : old.call(this);
});

// number-forms: decimal; 0x and 0o with 32 bits in two's complement; Infinity in any case.
const space = "\\t\\n\\v\\f\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const around = new RegExp(`^[${space}]+|[${space}]+$`, "g");
const blank = new RegExp(`[${space}]`);
const trim = text => text.replace(around, "");
patch(data.StringData.prototype, "number", old => function () {
  if (!on.has("number-forms")) return old.call(this);
  const text = trim(this.value);
  if (text === "") return 0;
  if (/^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(text)) return Number(text);
  if (/^0x[0-9a-fA-F]+$/.test(text) || /^0o[0-7]+$/.test(text)) {
    const whole = BigInt(text);
    return whole > 0xffffffffn ? NaN : Number(BigInt.asIntN(32, whole));
  }
  if (/^\+?infinity$/i.test(text)) return Infinity;
  return /^-infinity$/i.test(text) ? -Infinity : NaN;
});

// folding: letter by letter, so that nothing grows; the dotless i and the long s stay.
const upper = String.prototype.toUpperCase;
const lower = String.prototype.toLowerCase;
const fold = text =>
  [...text].map(c => {
    const u = upper.call(c);
    return c === "ı" || c === "ſ" || [...u].length !== 1 ? simple(c) : u;
  }).join("");
// Letters whose upper case is one letter only in the simple mapping.
const simple = c => ({ᾳ: "ᾼ", ῃ: "ῌ", ῳ: "ῼ"})[c] ?? c;
String.prototype.toUpperCase = function () {
  return on.has("folding") ? fold(String(this)) : upper.call(this);
};
String.prototype.toLowerCase = function () {
  return on.has("folding") ? fold(String(this)).replace(/[A-Z]/g, c => lower.call(c)) : lower.call(this);
};

// quotes: every '' in a text is a quote, not only the first.
patch(Lexer.prototype, "addToken", old => function (type, value) {
  if (on.has("quotes") && type === TokenType.STRING) {
    value = this.input.substring(this.start + 1, this.offset - 1).replaceAll("''", "'");
  }
  old.call(this, type, value);
});

// white-space: every white space of Unicode stands between symbols.
const spaces = text => {
  if (!on.has("white-space") || !blank.test(text)) return text;
  let quoted = false;
  return [...text].map(c => {
    if (c === "'") quoted = !quoted;
    return !quoted && blank.test(c) ? (c === "\n" ? c : " ") : c;
  }).join("");
};

// names: of two names that differ in case the last value counts, at the first one's place;
// a name may be anything, also one that JavaScript's objects have from birth.
patch(data.Dictionary.prototype, "add", old => function (key, value) {
  if (!on.has("names")) return old.call(this, key, value);
  this.places ??= new Map();
  const folded = key.toLowerCase();
  if (this.places.has(folded)) {
    this.v[this.places.get(folded)] = value;
    return;
  }
  this.places.set(folded, this.v.length);
  this.keys.push(key);
  this.v.push(value);
});
patch(data.Dictionary.prototype, "get", old => function (key) {
  return this.places ? this.v[this.places.get(key.toLowerCase())] : old.call(this, key);
});
patch(data.Dictionary.prototype, "pairs", old => function () {
  return this.places ? this.keys.map((key, i) => ({key, value: this.v[i]})) : old.call(this);
});

// json-text: .NET escapes three line separators more, and names may be anything.
const quote = text => JSON.stringify(text).replace(/[\u0085\u2028\u2029]/g, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
function write(d, indent) {
  const inner = indent + "  ";
  const list = (open, shut, parts) =>
    parts.length ? `${open}\n${parts.map(p => inner + p).join(",\n")}\n${indent}${shut}` : open + shut;
  switch (kindStr(d.kind)) {
    case "Null": return "null";
    case "Boolean": return String(d.value);
    case "Number": return on.has("number-text") ? g15(d.value) : String(JSON.stringify(d.value));
    case "String": return on.has("json-text") ? quote(d.value) : JSON.stringify(d.value);
    case "Array": return list("[", "]", d.values().map(v => write(v, inner)));
  }
  return list("{", "}", d.pairs().map(p =>
    `${on.has("json-text") ? quote(p.key) : JSON.stringify(p.key)}: ${write(p.value, inner)}`));
}
patch(wellKnownFunctions.tojson, "call", old => (...args) =>
  on.has("number-text") || on.has("json-text") || on.has("names") ? new data.StringData(write(args[0], "")) : old(...args));

// json-depth: JSON nests a hundred levels.
const depthOf = text => {
  let depth = 0, most = 0, quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c === "\\") i++;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === "[" || c === "{") most = Math.max(most, ++depth);
    else if (c === "]" || c === "}") depth--;
  }
  return most;
};
patch(wellKnownFunctions.fromjson, "call", old => (...args) => {
  if (on.has("json-depth") && depthOf(args[0].coerceString()) > 100) throw new Error("too deep");
  return old(...args);
});

// placeholders: {0} and nothing else between the braces, and at most 255.
// lazy: case and format compute what they use, and nothing else.
patch(Evaluator.prototype, "visitFunctionCall", old => function (call) {
  const name = lower.call(call.functionName.lexeme);
  if (name === "format" && (on.has("lazy") || on.has("placeholders"))) return this.format(call);
  if (name !== "case" || !on.has("lazy")) return old.call(this, call);
  const last = call.args.length - 1;
  for (let i = 0; i < last; i += 2) {
    const condition = this.eval(call.args[i]);
    if (condition.kind !== data.Kind.Boolean) throw new Error("case predicate must evaluate to a boolean value");
    if (condition.value) return this.eval(call.args[i + 1]);
  }
  return this.eval(call.args[last]);
});
Evaluator.prototype.format = function (call) {
  const template = this.eval(call.args[0]).coerceString();
  const values = on.has("lazy") ? [] : call.args.slice(1).map(a => this.eval(a));
  if (!on.has("placeholders")) {
    const used = this.used(template, call, values);
    return wellKnownFunctions.format.call(new data.StringData(template), ...used);
  }
  let out = "";
  for (let rest = template; rest !== "";) {
    const at = rest.search(/[{}]/);
    if (at < 0) return new data.StringData(out + rest);
    if (rest[at + 1] === rest[at]) {
      out += rest.slice(0, at + 1);
      rest = rest.slice(at + 2);
      continue;
    }
    const found = /^\{(\d+)\}/.exec(rest.slice(at));
    const index = found ? Number(found[1]) : NaN;
    if (!(index <= 255) || index >= call.args.length - 1) throw new Error("format string is invalid");
    values[index] ??= this.eval(call.args[index + 1]);
    out += rest.slice(0, at) + values[index].coerceString();
    rest = rest.slice(at + found[0].length);
  }
  return new data.StringData(out);
};
// used evaluates the arguments that a template names, before the first mistake in it.
Evaluator.prototype.used = function (template, call, values) {
  if (values.length) return values;
  return call.args.slice(1).map((a, i) =>
    new RegExp(`\\{0*${i}[^0-9]`).test(template) ? this.eval(a) : new data.Null());
};

// trailing-comma: there is none after the last argument.
patch(Parser.prototype, "call", old => function () {
  if (!on.has("trailing-comma") || !this.check(TokenType.IDENTIFIER)) return old.call(this);
  const identifier = this.next();
  if (!this.match(TokenType.LEFT_PAREN)) {
    if (!this.extContexts.has(lower.call(identifier.lexeme))) {
      throw this.buildError(ErrorType.ErrorUnrecognizedContext, identifier);
    }
    return new ContextAccess(identifier);
  }
  const args = [];
  while (!this.match(TokenType.RIGHT_PAREN)) {
    if (args.length) this.consume(TokenType.COMMA, ErrorType.ErrorUnexpectedSymbol);
    args.push(this.expression());
  }
  validateFunction(this.context, identifier, args.length);
  return new FunctionCall(identifier, args);
});

// depth: fifty levels of the tree, in which parentheses are no level, nor is a chain within a
// chain of the same operator.
patch(Parser.prototype, "incrDepth", old => function () {
  if (!on.has("depth")) old.call(this);
});
const inside = n => {
  while (n instanceof Grouping) n = n.group;
  return n;
};
const chain = n => n.args.flatMap(a => {
  const i = inside(a);
  return i instanceof Logical && i.operator.type === n.operator.type ? chain(i) : [i];
});
function levels(node) {
  const n = inside(node);
  const below = n instanceof Logical ? chain(n)
    : n instanceof FunctionCall ? n.args
    : n instanceof Binary ? [n.left, n.right]
    : n instanceof Unary ? [n.expr]
    : n instanceof IndexAccess ? [n.expr, n.index] : [];
  return 1 + Math.max(0, ...below.map(levels));
}

const RULES = ["number-text", "number-forms", "folding", "quotes", "white-space", "names", "json-text", "json-depth",
  "placeholders", "lazy", "trailing-comma", "depth"];

function plain(d) {
  switch (kindStr(d.kind)) {
    case "Number":
      return Number.isFinite(d.value) ? d.value + 0 : {$num: String(d.value)};
    case "Array":
      return d.values().map(plain);
    case "Object":
      return {$object: d.pairs().map(p => [p.key, plain(p.value)])};
    case "Null":
      return null;
  }
  return d.value;
}

const statuses = new Map([["always", true], ["success", true], ["failure", false], ["cancelled", false]].map(
  ([name, value]) => [name, {name, minArgs: 0, maxArgs: name.match(/^[sf]/) ? Infinity : 0,
    call: () => new data.BooleanData(value)}]));

// Contexts are never changed, so they are read once for each reading of their names.
const known = new Map();
function contextsOf(text) {
  const key = ["names", "folding"].filter(r => on.has(r)) + text;
  if (!known.has(key)) known.set(key, JSON.parse(text, data.reviver));
  return known.get(key);
}

function answer(line) {
  let phase = "lexing";
  try {
    const contexts = contextsOf(line.contexts);
    const {tokens} = new Lexer(spaces(line.expr)).lex();
    phase = "parsing";
    const tree = new Parser(tokens, contexts.pairs().map(p => p.key), [...statuses.values()]).parse();
    if (tree === undefined) return {kind: "Null", value: null};
    if (on.has("depth") && levels(tree) > 50) throw new ExpressionError(ErrorType.ErrorExceededMaxDepth, tokens[0]);
    phase = "evaluation";
    const value = new Evaluator(tree, contexts, statuses).evaluate();
    return {kind: kindStr(value.kind), value: plain(value)};
  } catch (e) {
    return {error: {phase, message: String(e.message || e).slice(0, 200)}};
  } finally {
    on.clear();
  }
}
const under = (rules, line) => {
  rules.forEach(r => on.add(r));
  return answer(line);
};

const same = (a, b) => JSON.stringify(a.error ? a.error.phase : a) === JSON.stringify(b.error ? b.error.phase : b);
for await (const text of readline.createInterface({input: process.stdin})) {
  const line = JSON.parse(text);
  const out = {id: line.id, raw: under([], line), ruled: under(RULES, line)};
  if (!same(out.raw, out.ruled)) {
    out.rules = RULES.filter(r => !same(under(RULES.filter(o => o !== r), line), out.ruled));
    if (!out.rules.length) out.rules = RULES.filter(r => !same(under([r], line), out.raw));
  }
  process.stdout.write(JSON.stringify(out) + "\n");
}
