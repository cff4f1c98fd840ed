// What tests ask of a page. Each function returns a list of what is wrong.

// Elements that end right of the text or of the page, but in boxes of their own that scroll or clip.
function stickingOut() {
  const page = document.documentElement;
  const found = page.scrollWidth > page.clientWidth ? [`the page is ${page.scrollWidth} pixels wide`] : [];
  for (const element of document.querySelectorAll(".bd-header *, .bd-main *, .bd-footer *")) {
    const box = element.getBoundingClientRect();
    const text = element.closest(".bd-article-container");
    const end = text && text !== element ? text.getBoundingClientRect().right : page.clientWidth;
    if (box.width < 2 || box.height < 2 || box.right <= end + 1 || !element.checkVisibility()) continue;
    let above = element.parentElement;
    const isPlain = (box) => getComputedStyle(box).overflowX === "visible" && getComputedStyle(box).position !== "fixed";
    while (above !== text && above !== document.body && isPlain(above)) above = above.parentElement;
    if (above === text || above === document.body)
      found.push(`${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 60)}`);
  }
  return found;
}

// Images that have not come, and images and formulas that have no size.
function emptyImages() {
  const missing = [...document.images].filter(
    (image) => image.checkVisibility() && !(image.complete && image.naturalWidth && image.width),
  );
  const flat = [...document.querySelectorAll("svg.formula")].filter((formula) => {
    const box = formula.getBoundingClientRect();
    return formula.checkVisibility() && !(box.width && box.height);
  });
  return [...missing.map((image) => image.src), ...flat.map((formula) => formula.getAttribute("aria-label"))];
}

// Text whose contrast with what is behind it (as WCAG 2 defines it) is below the least that is asked for.
function faint(selector, least) {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  function read(colour) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  function behind(element) {
    if (!element) return [255, 255, 255, 1];
    const own = read(getComputedStyle(element).backgroundColor);
    return own[3] > 0.999 ? own : over(own, behind(element.parentElement));
  }
  function luminance(colour) {
    const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.map((x) => linear(x / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  const isSeen = (element) =>
    element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) &&
    !element.closest("svg, script, style, .headerlink");
  const found = new Set();
  const walker = document.createTreeWalker(document.querySelector(selector), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim().slice(0, 40);
    if (!text || !isSeen(element)) continue;
    const ground = behind(element);
    const ink = over(read(getComputedStyle(element).color), ground);
    const [low, high] = [luminance(ink), luminance(ground)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < least) found.add(`${contrast.toFixed(2)} ${element.tagName}.${element.className}: ${text}`);
  }
  return [...found];
}
