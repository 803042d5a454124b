"""How the page about the API looks: on paper, by day and by night, on a desk and on a phone."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #faf9f6; --card: #fff; --ink: #1d2126; --soft: #5d6672; --line: #e3e0d8; --code: #f4f2ec; --link: #0b5f9e;
  --get: #0a6b4d; --post: #8a4a00; --delete: #a3232e;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --card: #1b1f25; --ink: #e4e7eb; --soft: #9aa4b0; --line: #2d333b; --code: #12151a;
    --link: #7db9ee; --get: #5fd0a5; --post: #f0b367; --delete: #f28b94;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif;
}
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
code, pre { font: .86em/1.5 var(--mono); }
pre {
  background: var(--code); border: 1px solid var(--line); border-radius: .45rem; padding: .75rem .9rem; margin: .3rem 0;
  overflow-x: auto;
}
p code, dd code, dt code, .said code, .replies code {
  background: var(--code); border-radius: .25rem; padding: .08em .32em; overflow-wrap: anywhere;
}
.frame { display: grid; grid-template-columns: 19rem minmax(0, 1fr); max-width: 82rem; margin: 0 auto; }

nav {
  position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto;
  padding: 1.75rem 1rem 2rem 1.5rem; font-size: .86rem;
}
nav h2 { margin: 1.4rem 0 .35rem; }
nav h2:first-child { margin-top: 0; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav a { display: flex; gap: .55rem; padding: .17rem 0; color: inherit; }
nav a span:last-child { overflow-wrap: anywhere; min-width: 0; }
nav h2, h3 { font-size: .74rem; letter-spacing: .07em; text-transform: uppercase; color: var(--soft); }

main { padding: 1.75rem 2rem 6rem; min-width: 0; }
header { max-width: 46rem; }
header h1 { font-size: 2rem; line-height: 1.15; letter-spacing: -.02em; margin: 0 0 .6rem; }
header p { margin: .5rem 0; }
.version { color: var(--soft); font-weight: 400; font-size: 1rem; letter-spacing: 0; }
section > h2 { font-size: 1.3rem; letter-spacing: -.01em; margin: 2.5rem 0 .8rem; }

.method {
  font: 700 .68rem/1 var(--mono); letter-spacing: .04em; color: var(--m); flex: 0 0 2.8rem; padding-top: .42em;
}
.get { --m: var(--get); }
.post { --m: var(--post); }
.delete { --m: var(--delete); }
article { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; margin: 0 0 .7rem; }
article:has(:target) { border-color: var(--link); box-shadow: 0 0 0 1px var(--link); }
summary { cursor: pointer; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary:focus-visible, a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: .3rem; }
article > details > summary {
  display: flex; flex-wrap: wrap; gap: .2rem .75rem; align-items: baseline; padding: .75rem 1.1rem;
}
article summary .method { font-size: .8rem; flex-basis: 3.2rem; padding: 0; }
.path { font: 600 .95rem/1.4 var(--mono); overflow-wrap: anywhere; }
.said { color: var(--soft); flex: 1 1 12rem; }
.scope {
  font-size: .74rem; border: 1px solid var(--line); border-radius: 1rem; padding: .06rem .55rem; color: var(--soft);
  white-space: nowrap;
}
.inside { border-top: 1px solid var(--line); padding: .9rem 1.1rem 1.1rem; scroll-margin-top: 4.5rem; }
.inside > p { max-width: 46rem; margin: 0 0 .5rem; }
h3 { margin: 1.3rem 0 .35rem; }

dl { margin: 0; }
dl dl { border-left: 2px solid var(--line); padding-left: .9rem; margin: .3rem 0 .1rem; }
dt { margin-top: .55rem; overflow-wrap: anywhere; }
dt b { font: 600 .88rem/1.4 var(--mono); margin-right: .5rem; }
.kind { color: var(--soft); font-size: .82rem; }
.must { color: var(--post); font-size: .76rem; margin-left: .5rem; }
dd { margin: .05rem 0 0; font-size: .92rem; }
.replies > * { border-top: 1px solid var(--line); padding: .42rem 0; }
.replies > :first-child { border-top: 0; }
.replies dl, .replies h3 { margin-left: 3rem; }
.replies dl dl { margin-left: 0; }
.line { display: flex; gap: .3rem; align-items: baseline; }
.replies summary::after { content: "fields"; color: var(--link); font-size: .8rem; margin-left: auto; }
.replies details[open] > summary::after { content: "less"; }
.status { font: 700 .86rem/1 var(--mono); flex: 0 0 2.7rem; }
.s2 { color: var(--get); }
.s3 { color: var(--link); }
.s4 { color: var(--post); }
.s5 { color: var(--delete); }

@media (max-width: 56rem) {
  .frame { display: block; }
  nav { display: none; }
  main { padding: 1.25rem 1rem 4rem; }
  header h1 { font-size: 1.6rem; }
  article > details > summary, .inside { scroll-margin-top: 4rem; padding-left: .85rem; padding-right: .85rem; }
  .said { flex-basis: 100%; order: 1; }
  .scope { margin-left: auto; }
  .replies dl, .replies h3 { margin-left: 0; }
}
@media print {
  nav { display: none; }
  .frame { display: block; }
  article { break-inside: avoid; }
}
"""
