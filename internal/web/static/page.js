// The start of every page's scripts. Everything a page can do works without them; they
// keep it fresh, count its clocks and listen for keys.
import { startClock } from "./clock.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";

document.documentElement.classList.add("scripted");
startClock();
startKeys();
startLive();

// A reader who goes to the address of a job expects to see it, also when it is folded.
function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  let folded = target && target.closest("details:not([open])");
  for (; folded; folded = folded.parentElement.closest("details:not([open])")) folded.open = true;
  if (target) target.scrollIntoView({ block: "nearest" });
}
addEventListener("hashchange", openTarget);
openTarget();

// Only one form is open at a time, and Escape or a click beside it closes it.
document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll(".actions details[open], .meta details.action[open]")) {
    if (!open.contains(event.target)) open.open = false;
  }
});
