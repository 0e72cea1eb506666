"""The look of the report of `recipes.inspect`: light or dark as the reader's system is, from a phone's width on."""

STYLE = """
:root { color-scheme: light dark; --paper: #f6f7f9; --card: #fff; --ink: #1b1f24; --quiet: #57606a; --line: #d5dae0;
  --accent: #2357c5; --track: #e6eaf0; }
@media (prefers-color-scheme: dark) { :root { --paper: #12151a; --card: #1b2027; --ink: #e8ebef; --quiet: #9aa4b0;
  --line: #343c47; --accent: #84aaff; --track: #2a313b; } }
* { box-sizing: border-box; }
body { margin: 0; padding: clamp(1rem, 4vw, 2.5rem) 1rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); }
main { max-width: 70rem; margin: 0 auto; display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem; }
h1 { font-size: clamp(1.5rem, 5vw, 2.1rem); line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 0; overflow-wrap: anywhere; } h3 { font-size: 1.05rem; margin: .5rem 0 0; }
p { margin: 0; } .note { color: var(--quiet); font-size: .92rem; max-width: 75ch; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .75rem; padding: 1rem; display: grid;
  grid-template-columns: minmax(0, 1fr); gap: .9rem; }
.wide { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 15rem), 1fr)); }
.panels { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr));
  align-items: center; }
.strip { display: grid; gap: .7rem; grid-template-columns: repeat(auto-fill, minmax(5.6rem, 1fr)); }
.heads { display: grid; gap: .7rem; grid-template-columns: repeat(auto-fill, minmax(5.6rem, 1fr));
  padding: .3rem 0 .8rem; }
figure { margin: 0; } figcaption { font-size: .88rem; margin-top: .35rem; } figcaption small { color: var(--quiet); }
img { width: 100%; height: auto; display: block; border-radius: .35rem; }
.wide img { max-height: 40rem; object-fit: contain; } .strip img { max-height: 16rem; object-fit: contain; }
.heads img { image-rendering: pixelated; max-height: 16rem; min-height: 2px; }
.panels img { border-radius: 0; max-width: 34rem; margin: 0 auto; }
.scale { display: grid; grid-template-columns: auto 1fr auto; gap: .5rem; align-items: center; font-size: .85rem;
  color: var(--quiet); font-variant-numeric: tabular-nums; margin-top: .2rem; }
.scale i { height: .55rem; border-radius: .3rem; }
.bars { list-style: none; margin: 0; padding: 0; display: grid; gap: .35rem; max-width: 40rem; }
.bars li { display: grid; grid-template-columns: minmax(0, 1fr) 4.5rem; gap: .1rem 1rem; }
.bars b { font-weight: 500; overflow-wrap: anywhere; }
.bars span { text-align: right; font-variant-numeric: tabular-nums; }
.bars i { grid-column: 1 / -1; height: .4rem; border-radius: .2rem; background: var(--track); overflow: hidden; }
.bars i::before { content: ""; display: block; height: 100%; width: var(--share); background: var(--accent); }
details { border-top: 1px solid var(--line); }
summary { cursor: pointer; min-height: 2.75rem; align-content: center; }
summary small { color: var(--quiet); margin-left: .4rem; }
summary:focus-visible, .scroll:focus-visible { outline: 3px solid var(--accent); outline-offset: -2px;
  border-radius: .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; min-width: min(100%, 24rem); }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--quiet); font-weight: 600; } .text { text-align: left; }
.facts td { white-space: normal; overflow-wrap: anywhere; }
tr:last-child td { border-bottom: 0; } footer { color: var(--quiet); font-size: .88rem; overflow-wrap: anywhere; }
"""
