// Says of workflow files what GitHub's own published parser says, @actions/workflow-parser.
//
//   node workflow.mjs MODULES < {"id", "text"} per line > {"id", "errors"} per line
//
// All features that the package knows are on. Workflows that a file calls are not read.
import path from "node:path";
import readline from "node:readline";
import {register} from "node:module";
import {pathToFileURL} from "node:url";

// The package imports its schema without saying that it is JSON.
register("data:text/javascript," + encodeURIComponent(
  "export function load(u,c,n){return n(u,u.endsWith('.json')?{...c,importAttributes:{type:'json'}}:c)}"));

const modules = path.resolve(process.argv[2]);
const load = name => import(pathToFileURL(path.join(modules, name)));
const {parseWorkflow, convertWorkflowTemplate, NoOperationTraceWriter} =
  await load("@actions/workflow-parser/dist/index.js");
const {TemplateContext, TemplateValidationErrors} =
  await load("@actions/workflow-parser/dist/templates/template-context.js");
const {getWorkflowSchema} = await load("@actions/workflow-parser/dist/workflows/workflow-schema.js");
const {FeatureFlags} = await load("@actions/expressions/dist/features.js");
const featureFlags = new FeatureFlags({all: true});

async function judge(text) {
  try {
    const context = new TemplateContext(new TemplateValidationErrors(), getWorkflowSchema(), new NoOperationTraceWriter());
    context.state.featureFlags = featureFlags;
    const parsed = parseWorkflow({name: "w.yml", content: text}, context);
    if (!parsed.value || parsed.context.errors.getErrors().length > 0) {
      return parsed.context.errors.getErrors().map(e => e.message);
    }
    const template = await convertWorkflowTemplate(parsed.context, parsed.value, undefined, {featureFlags});
    return (template.errors ?? []).map(e => e.Message);
  } catch (e) {
    return ["exception: " + e.message];
  }
}

for await (const line of readline.createInterface({input: process.stdin})) {
  const {id, text} = JSON.parse(line);
  console.log(JSON.stringify({id, errors: await judge(text)}));
}
