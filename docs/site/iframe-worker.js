// Browsers start no worker of a page that is read from a disk, and the search is one. There its
// script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const tell = (target, data) => target.dispatchEvent(new MessageEvent("message", { data }));
      inside.postMessage = (data) => tell(this, data);
      const script = inside.document.createElement("script");
      const loaded = new Promise((resolve) => script.addEventListener("load", resolve));
      script.src = url;
      inside.document.body.append(script);
      this.postMessage = (data) => loaded.then(() => tell(inside, data));
      this.terminate = () => frame.remove();
    }
  };
}
